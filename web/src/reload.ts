// Another chain takes over, for who has the token.
import { byId, write } from "./page-parts";

export class Reload {
  private readonly button = byId("reload-button") as HTMLButtonElement;
  private readonly text = byId("reload-text") as HTMLTextAreaElement;

  constructor() {
    const file = byId("reload-file") as HTMLInputElement;
    file.addEventListener("change", async () => {
      const chosen = file.files?.[0];
      if (chosen !== undefined) this.text.value = await chosen.text();
    });
    (byId("reload-form") as HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.reload();
    });
  }

  heed(isOffered: boolean, hasEnded: boolean): void {
    byId("reload").hidden = !isOffered;
    this.button.disabled = hasEnded;
  }

  private async reload(): Promise<void> {
    this.button.disabled = true;
    this.tell("The chain is being built; the one before goes on meanwhile.");
    try {
      const token = (byId("reload-token") as HTMLInputElement).value;
      const answer = await fetch("/reload", {
        method: "POST",
        headers: { "Content-Type": "application/toml", Authorization: `Bearer ${token}` },
        body: this.text.value,
      });
      const told = (await answer.text()).trim();
      this.tell(answer.ok ? told : `Not reloaded, the chain before goes on:\n${told}`);
    } catch {
      // A header takes no other characters than those of Latin scripts.
      this.tell("Not asked: the run does not answer, or the token has characters that no token has.");
    }
    this.button.disabled = false;
  }

  private tell(text: string): void {
    byId("reload-box").hidden = false;
    write("reload-told", text);
  }
}
