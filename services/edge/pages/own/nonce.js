// Styles that GraphiQL's dialogs make carry the nonce of the page's policy.
window.__webpack_nonce__ = document.body.dataset.nonce;
