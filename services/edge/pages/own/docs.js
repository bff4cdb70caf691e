import { callPanel, pendingPanel } from './panel.js';

// Swagger UI is dark by a class.
const dark = matchMedia('(prefers-color-scheme: dark)');
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', paint);
paint();

const panel = document.getElementById('panel');
const pending = pendingPanel();
panel.append(callPanel(pending), pending);

window.ui = SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#swagger',
  deepLinking: true,
  docExpansion: 'none',
  filter: true,
  validatorUrl: null,
  // What is tried below may ask something, too.
  responseInterceptor: response => {
    if (response.status === 202) pending.refresh();
    return response;
  },
});
