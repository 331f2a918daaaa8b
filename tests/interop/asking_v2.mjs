// What the TypeScript SDK 2.x is asked: in answers to its requests, since it has no sessions.

import { Answers, CAPABILITIES, main } from './asking.mjs';
import { Adapter } from './ts_v2.mjs';

class Asked extends Adapter {
  user = new Answers();
  model = new Answers();

  constructor(kind, target) {
    super(kind, target, { capabilities: CAPABILITIES });
    this.client.setRequestHandler('elicitation/create', async ({ params }) => this.user.to(params));
    this.client.setRequestHandler('sampling/createMessage', async ({ params }) => this.model.to(params));
  }
}

await main(Asked);
