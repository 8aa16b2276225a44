// Stands for the module "bun" under node: of what that offers, its shell.

export { $ } from "./shell.mjs"
