export * from "@speed-highlight/core/dist/tokenize.js";
