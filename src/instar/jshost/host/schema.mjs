// A tool's arguments as JSON Schema: from zod 4 (`_zod`), from zod 3 (`_def`), or from JSON Schema already.

const DRAFT = "https://json-schema.org/draft/2020-12/schema"

// Return what the model is told of a tool. Throws for what is no tool.
export function describe(name, tool) {
  if (!tool || typeof tool.execute !== "function") throw new Error(`the tool ${name} has no function \`execute\``)
  const schema = parameters(tool.args ?? tool.parameters ?? {})
  const flags = { ordered: tool.ordered === true, idempotent: tool.idempotent === true }
  return { description: String(tool.description ?? ""), parameters: schema, ...flags }
}

// Return the JSON Schema of an object, from a shape of zod or JSON Schema fields, or from a whole schema; opencode's own
// are made the same way (1.18.33): fields of JSON Schema are all required, and other arguments do no harm.
export function parameters(args) {
  if (!isZod(args) && args.type === "object" && !isZod(args.type)) return args
  const draft = isZod(args) || Object.values(args).every(isZod) ? { $schema: DRAFT } : {}
  defined = {}
  begun = new Map()
  named = 0
  const made = isZod(args) ? converted(args) : object(args)
  return { ...draft, ...made, ...(Object.keys(defined).length ? { $defs: defined } : {}) }
}

// By name the schemas that hold themselves, as zod's own `toJSONSchema` gives them; and those that are being converted,
// each with its name once something in it means it.
let defined
let begun
let named

function object(shape) {
  const properties = {}
  const required = []
  for (const [name, field] of Object.entries(shape)) {
    properties[name] = isZod(field) ? converted(field) : field
    if (!isZod(field) || !field.safeParse(undefined).success) required.push(name)
  }
  return { type: "object", properties, ...(required.length ? { required } : {}) }
}

function isZod(value) {
  return Boolean(value && typeof value === "object" && ("_zod" in value || "_def" in value))
}

function converted(schema) {
  if (begun.has(schema)) {
    if (!begun.get(schema)) begun.set(schema, `schema${++named}`)
    return { $ref: `#/$defs/${begun.get(schema)}` }
  }
  begun.set(schema, "")
  const made = convertedOnce(schema)
  const name = begun.get(schema)
  begun.delete(schema)
  if (!name) return made
  defined[name] = made
  return { $ref: `#/$defs/${name}` }
}

function convertedOnce(schema) {
  const definition = schema._zod?.def ?? schema._def
  const kind = definition.type && typeof definition.type === "string" ? definition.type : String(definition.typeName ?? "")
  const make = KINDS[kind.replace(/^Zod/, "").toLowerCase()]
  const made = make ? make(definition, schema) : {}
  const described = schema.description ?? definition.description
  return described ? { ...made, description: described } : made
}

const inner = (definition) => converted(definition.innerType ?? definition.schema ?? definition.in ?? definition.type)

const KINDS = {
  string: (definition, schema) => ({ type: "string", ...textChecks(definition, schema) }),
  number: (definition, schema) => numberSchema(definition, schema),
  int: () => ({ type: "integer" }),
  bigint: () => ({ type: "integer" }),
  boolean: () => ({ type: "boolean" }),
  date: () => ({ type: "string", format: "date-time" }),
  null: () => ({ type: "null" }),
  any: () => ({}),
  unknown: () => ({}),
  never: () => ({ not: {} }),
  literal: (definition) => literal(definition.values ?? [definition.value]),
  enum: (definition) => ({ type: "string", enum: definition.entries ? Object.values(definition.entries) : definition.values }),
  nativeenum: (definition) => ({ enum: Object.values(definition.values) }),
  array: (definition) => arraySchema(definition),
  tuple: (definition) => ({ type: "array", prefixItems: definition.items.map(converted), items: false }),
  set: (definition) => ({ type: "array", uniqueItems: true, items: converted(definition.valueType) }),
  object: (definition) => objectSchema(definition),
  record: ({ keyType, valueType }) => ({ type: "object", propertyNames: converted(keyType), additionalProperties: converted(valueType) }),
  map: (definition) => ({ type: "object", additionalProperties: converted(definition.valueType) }),
  union: (definition) => ({ anyOf: [...definition.options.values()].map(converted) }),
  discriminatedunion: (definition) => ({ anyOf: [...definition.options.values()].map(converted) }),
  intersection: (definition) => ({ allOf: [converted(definition.left), converted(definition.right)] }),
  nullable: (definition) => ({ anyOf: [inner(definition), { type: "null" }] }),
  optional: inner,
  nonoptional: inner,
  default: (definition) => ({ ...inner(definition), default: value(definition.defaultValue) }),
  prefault: (definition) => ({ ...inner(definition), default: value(definition.defaultValue) }),
  catch: inner,
  readonly: inner,
  branded: (definition) => converted(definition.type),
  effects: (definition) => converted(definition.schema),
  pipe: (definition) => converted(definition.in),
  pipeline: (definition) => converted(definition.in),
  lazy: (definition) => converted(definition.getter()),
}

const value = (given) => (typeof given === "function" ? given() : given)

function literal(values) {
  const found = [...values]
  return found.length === 1 ? { const: found[0] } : { enum: found }
}

function objectSchema(definition) {
  const made = object(typeof definition.shape === "function" ? definition.shape() : definition.shape)
  const strict = definition.unknownKeys === "strict" || definition.catchall?._zod?.def.type === "never"
  return strict ? { ...made, additionalProperties: false } : made
}

function arraySchema(definition) {
  const made = { type: "array", items: converted(definition.element ?? definition.type) }
  for (const check of definition.checks ?? []) {
    const said = check._zod?.def ?? check
    if (said.check === "min_length") made.minItems = said.minimum
    if (said.check === "max_length") made.maxItems = said.maximum
  }
  if (definition.minLength) made.minItems = definition.minLength.value
  if (definition.maxLength) made.maxItems = definition.maxLength.value
  return made
}

function textChecks(definition) {
  const made = {}
  const all = [...(definition.checks ?? []).map((check) => check._zod?.def ?? check), definition]
  for (const said of all) {
    const kind = said.check ?? said.kind
    if (kind === "min_length" || kind === "min") made.minLength = said.minimum ?? said.value
    if (kind === "max_length" || kind === "max") made.maxLength = said.maximum ?? said.value
    const format = said.format ?? said.kind
    if (format === "regex") made.pattern = (said.pattern ?? said.regex).source
    if (["email", "uuid", "date", "time"].includes(format)) made.format = format
    if (format === "url") made.format = "uri"
    if (format === "datetime") made.format = "date-time"
  }
  return made
}

function numberSchema(definition) {
  const made = { type: "number" }
  const all = [...(definition.checks ?? []).map((check) => check._zod?.def ?? check), definition]
  for (const said of all) {
    const kind = said.check ?? said.kind
    if (kind === "int" || said.format === "safeint" || said.format === "int32") made.type = "integer"
    if (kind === "greater_than" || kind === "min") made[said.inclusive === false ? "exclusiveMinimum" : "minimum"] = said.value
    if (kind === "less_than" || kind === "max") made[said.inclusive === false ? "exclusiveMaximum" : "maximum"] = said.value
    if (kind === "multiple_of" || kind === "multipleOf") made.multipleOf = said.value
  }
  return made
}
