// @ts-check
// The login page: exchanges a token for a session that scripts cannot read.

const form = /** @type {HTMLFormElement} */ (document.getElementById("form"));
const token = /** @type {HTMLInputElement} */ (document.getElementById("token"));
const problem = /** @type {HTMLElement} */ (document.getElementById("problem"));

/** Opens the dashboard at the place that was requested before the login. */
function enter() {
  location.replace(`/${location.hash}`);
}

// A request that follows a link from another site carries no session cookie. This request does, if there is a session.
fetch("/", { method: "HEAD" }).then((answer) => {
  if (answer.ok) enter();
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.textContent = "";
  token.removeAttribute("aria-invalid");
  try {
    const answer = await fetch("/login", {
      method: "POST",
      headers: { Authorization: `Bearer ${token.value.trim()}` },
    });
    if (answer.ok) {
      token.value = "";
      enter();
      return;
    }
    problem.textContent = (await answer.json()).error;
  } catch {
    problem.textContent = "The dashboard cannot be reached, or the token has characters that no token has.";
  }
  token.setAttribute("aria-invalid", "true");
  token.select();
});
