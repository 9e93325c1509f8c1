const leadingNoise = /^(?:\s+|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)+/;
const readWords = /^(?:select|show|describe|desc|exists|check)\b/i;

/**
 * `read` only for what surely writes nothing; a statement that is not recognised counts as a write, which costs a retry
 * and never a duplicate.
 */
export function kindOf(statement: string): "read" | "write" {
  const text = statement.replace(leadingNoise, "");
  if (readWords.test(text)) return "read";
  return /^with\b/i.test(text) && !/\binsert\b/i.test(text) ? "read" : "write";
}

/**
 * The statement may bring its rows along, so the server may have parsed and written some before it refuses one. False
 * only for an INSERT … SELECT without the words FORMAT and VALUES: the rows of any other may hold the word "select".
 */
export function carriesRows(statement: string): boolean {
  const text = statement.replace(leadingNoise, "");
  return /^insert\b/i.test(text) && (!/\bselect\b/i.test(text) || /\b(?:format|values)\b/i.test(text));
}

/** The statement may be one that other servers execute too. Also true where a text in it only holds these words. */
export const onCluster = (statement: string): boolean => /\bon\s+cluster\b/i.test(statement);
