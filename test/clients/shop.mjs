// The server of test/docs/shop with FastMCP for TypeScript: docs/explanation/comparison.md counts its lines,
// and test/docs runs it. It listens on the port that it is given.
import { FastMCP } from "fastmcp";
import { z } from "zod";

const items = { lamp: { name: "lamp", price: 30 }, chair: { name: "chair", price: 80 } };
const names = Object.keys(items);
const name = z.enum(names).describe("what is sold");
const argument = { name: "name", description: "what is sold", required: true, enum: names };

const item = (named) => {
  if (!Object.hasOwn(items, named)) throw new Error(`nothing called ${named} is sold`);
  return items[named];
};

const server = new FastMCP({ name: "shop", version: "1.0.0", instructions: "Prices are in euros." });
server.addTool({
  name: "shop_get",
  description: "Shows an item.",
  annotations: { readOnlyHint: true },
  parameters: z.object({ name }),
  outputSchema: z.object({ name, price: z.number().int() }),
  execute: async (args) => items[args.name],
});
server.addTool({
  name: "shop_quote",
  description: "Says what some cost.",
  annotations: { readOnlyHint: true },
  parameters: z.object({ name, quantity: z.number().int().min(1).max(100).default(1).describe("how many") }),
  outputSchema: z.object({ total: z.number().int() }),
  execute: async (args) => ({ total: items[args.name].price * args.quantity }),
});
server.addResource({
  uri: "shop://items",
  name: "items",
  mimeType: "application/json",
  load: async () => ({ text: JSON.stringify(items) }),
});
server.addResourceTemplate({
  uriTemplate: "shop://items/{name}",
  name: "item",
  mimeType: "application/json",
  arguments: [{ ...argument, complete: async (typed) => ({ values: names.filter((n) => n.startsWith(typed)) }) }],
  load: async (args) => ({ text: JSON.stringify(item(args.name)) }),
});
server.addPrompt({
  name: "shop_praise",
  description: "Praises an item.",
  arguments: [argument],
  load: async (args) => `Praise our ${args.name} for ${item(args.name).price} euros.`,
});
const httpStream = { port: Number(process.argv[2]), host: "127.0.0.1", stateless: true };
await server.start({ transportType: "httpStream", httpStream });
