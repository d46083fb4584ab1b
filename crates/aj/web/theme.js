// Runs before the first paint, so that a chosen theme never flashes into the other.
const chosen = localStorage.getItem("aj-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
