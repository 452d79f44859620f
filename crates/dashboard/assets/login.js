// @ts-check
// The login page: exchanges a token for a session that scripts cannot read.

const form = /** @type {HTMLFormElement} */ (document.getElementById("form"));
const token = /** @type {HTMLInputElement} */ (document.getElementById("token"));
const problem = /** @type {HTMLElement} */ (document.getElementById("problem"));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.textContent = "";
  try {
    const answer = await fetch("/login", {
      method: "POST",
      headers: { Authorization: `Bearer ${token.value.trim()}` },
    });
    if (answer.ok) {
      token.value = "";
      location.replace("/");
      return;
    }
    problem.textContent = (await answer.json()).error;
  } catch {
    problem.textContent = "The dashboard cannot be reached, or the token has characters that no token has.";
  }
  token.focus();
});
