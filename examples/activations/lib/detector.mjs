import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import * as ort from "onnxruntime-web/wasm";
import { sampleRate, samplesPerFrame } from "./wav.mjs";

export const modelId = "silero_vad_v5";

/**
 * Opens the Silero speech detector that ships inside @ricky0123/vad-web. It is a recurrent network: each frame's answer
 * depends on the state that the frame before left behind, which is why the state is worth keeping.
 */
export async function openDetector() {
  ort.env.wasm.numThreads = 1; // one thread, one order of additions: the same bits on every run
  const file = createRequire(import.meta.url).resolve(`@ricky0123/vad-web/dist/${modelId}.onnx`);
  const session = await ort.InferenceSession.create(await readFile(file), { executionProviders: ["wasm"] });
  const sr = new ort.Tensor("int64", BigInt64Array.of(BigInt(sampleRate)), []);
  let state = new ort.Tensor("float32", new Float32Array(2 * 1 * 128), [2, 1, 128]);
  return {
    /** Runs the model on one frame; returns its `output` (how surely this is speech, 0 to 1) and the new inner `state`. */
    async listen(samples) {
      const input = new ort.Tensor("float32", samples, [1, samplesPerFrame]);
      const { output, stateN } = await session.run({ input, state, sr });
      state = stateN;
      return { output, state: stateN };
    },
  };
}
