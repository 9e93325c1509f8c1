/** An error as one line for a person. Holdfast's messages begin with their code and say all; of others the causes follow. */
export function oneLine(error) {
  const messages = [];
  for (let e = error, depth = 0; e !== undefined && e !== null && depth < 4; e = e.cause, depth += 1) {
    const text = (e instanceof Error ? e.message || e.name : String(e)).replace(/\s+/g, " ").trim();
    if (text !== "" && !messages.some((earlier) => earlier.includes(text))) messages.push(text);
    if (/^\[[A-Z_]+\] /.test(text)) break;
  }
  return messages.join(": ");
}
