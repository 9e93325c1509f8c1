/** An error as one line for a person: the message, with the causes that say something new. Holdfast's messages start with their code. */
export function oneLine(error) {
  const messages = [];
  for (let e = error, depth = 0; e !== undefined && e !== null && depth < 4; e = e.cause, depth += 1) {
    const text = (e instanceof Error ? e.message || e.name : String(e)).replace(/\s+/g, " ").trim();
    if (text !== "" && !messages.some((earlier) => earlier.includes(text))) messages.push(text);
  }
  return messages.join(" <- ");
}
