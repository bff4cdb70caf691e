import { latch } from './busbar.mjs';

/**
 * watched is a fetch, and a promise that the server has accepted the stream of
 * notifications: SDKs open it behind the back of connect.
 */
export function watched() {
  const { promise, open } = latch();
  return {
    listens: promise,
    async fetch(url, init) {
      const response = await globalThis.fetch(url, init);
      const headers = new Headers(init?.headers);
      if (response.ok && (init?.method === 'GET' || headers.get('mcp-method') === 'subscriptions/listen')) open();
      return response;
    },
  };
}
