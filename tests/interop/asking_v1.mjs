// What the TypeScript SDK 1.x is asked, in its newest version.

import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { Answers, CAPABILITIES, main } from './asking.mjs';
import { Adapter } from './ts_v1.mjs';

class Asked extends Adapter {
  user = new Answers();
  model = new Answers();

  constructor(kind, target) {
    super(kind, target, CAPABILITIES);
    this.client.setRequestHandler(ElicitRequestSchema, async ({ params }) => this.user.to(params));
    this.client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => this.model.to(params));
  }
}

await main(Asked);
