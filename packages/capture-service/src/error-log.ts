/** The newest thing that went wrong, for the status. */
export class ErrorLog {
  last: string | null = null;

  note(text: string): void {
    this.last = text.length <= 512 ? text : `${text.slice(0, 511)}…`;
  }
}
