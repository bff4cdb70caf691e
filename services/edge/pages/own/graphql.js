import { pendingPanel } from './panel.js';

const pending = pendingPanel();
document.getElementById('panel').append(pending);

const fetcher = async (params, options) => {
  const response = await fetch(location.pathname, {
    method: 'POST',
    headers: { ...options?.headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ query: params.query, variables: params.variables, operationName: params.operationName }),
  });
  const answer = await response.json();
  if (answer.errors?.some(e => e.extensions?.elicitation || e.extensions?.approval)) pending.ask();
  return answer;
};

// Tab leaves an editor as it leaves every other field, but where it takes a suggestion: an
// editor that keeps it cannot be left with a keyboard alone.
document.addEventListener('keydown', event => {
  if (event.key === 'Tab' && event.target.closest('.CodeMirror') && !document.querySelector('.CodeMirror-hints')) event.stopPropagation();
}, true);

const { createElement } = React;
ReactDOM.createRoot(document.getElementById('graphiql')).render(
  createElement(GraphiQL, {
    fetcher,
    plugins: [GraphiQLPluginExplorer.explorerPlugin()],
    defaultEditorToolsVisibility: true,
    defaultQuery: '{\n  getTools {\n    name\n    description\n  }\n}\n',
  }),
);
