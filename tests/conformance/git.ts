// Git: a bare repository in a fresh directory per case, with two stores on it.
import { gitDeviations, gitPlace } from "../../packages/storage-git/test/support/place.js";
import type { Backend } from "./backends.js";

/** Needs the machine's git, 2.31 or newer. */
export const git = (): Promise<Backend> => Promise.resolve({ open: gitPlace, knownDeviations: gitDeviations });
