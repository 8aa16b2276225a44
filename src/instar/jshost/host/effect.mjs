// A promise that is also a value of the library effect, of its versions 3 and 4: published plugins await what `ask`
// returns, or run it through `Effect.runPromise`.

const V3 = Symbol.for("effect/Effect")
const V4 = "~effect/Effect"
const EVALUATE = `${V4}/evaluate`

// Return `work()`, which is begun at once, in both forms.
export function hybrid(work) {
  const promise = Promise.resolve(work())
  // Where only the other form is run, that one says what failed.
  promise.catch(() => {})
  return Object.assign(promise, third(promise), fourth(promise), {
    pipe(...steps) {
      return steps.reduce((value, step) => step(value), this)
    },
  })
}

function third(promise) {
  const ended = (give) => ({ [V3]: variance, _op: "Sync", effect_instruction_i0: give })
  return {
    [V3]: variance,
    _op: "Async",
    effect_instruction_i0(resume) {
      promise.then(
        (value) => resume(ended(() => value)),
        (error) =>
          resume(
            ended(() => {
              throw error
            }),
          ),
      )
    },
  }
}

const variance = { _R: (value) => value, _E: (value) => value, _A: (value) => value, _V: undefined }

function fourth(promise) {
  return {
    [V4]: { _A: (value) => value, _E: (value) => value, _R: (value) => value },
    [EVALUATE](fiber) {
      let left = false
      const resume = (effect) => left || fiber.evaluate(effect)
      promise.then(
        (value) => resume(success(value)),
        (error) => resume({ [EVALUATE]: () => thrown(error) }),
      )
      return fiber.yieldWith(() => {
        left = true
      })
    },
  }
}

function thrown(error) {
  throw error
}

function success(value) {
  return {
    "~effect/Exit": "~effect/Exit",
    _tag: "Success",
    _op: "Success",
    value,
    [EVALUATE](fiber) {
      const next = fiber.getCont(`${V4}/successCont`)
      return next ? next[`${V4}/successCont`](value, fiber, this) : fiber.yieldWith(this)
    },
  }
}
