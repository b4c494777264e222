// The public OpenAI client library, unmodified, against a running server.
//
//   node openai_client.mjs FOLDER_WITH_NODE_MODULES BASE_URL API_KEY
//
// Prints nothing and exits 0 when every answer is as that library's users expect it.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';

const [folder, baseURL, apiKey] = process.argv.slice(2);
const { OpenAI } = createRequire(path.resolve(folder, 'package.json'))('openai');
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
const messages = [{ role: 'user', content: 'Cool, thanks.' }];
const expected = 'You are welcome!';

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.equal(models.length, 1);
const model = models[0];
assert.equal((await client.models.retrieve(model)).id, model);

const chat = await client.chat.completions.create({ model, messages, temperature: 0, user: 'test' });
assert.equal(chat.choices[0].message.content, expected);
assert.equal(chat.choices[0].message.role, 'assistant');
assert.equal(chat.choices[0].finish_reason, 'stop');
assert.equal(chat.usage.prompt_tokens + chat.usage.completion_tokens, chat.usage.total_tokens);

let text = '';
let usage = null;
const stream = await client.chat.completions.create({
  model, messages, temperature: 0, stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? '';
  usage = chunk.usage ?? usage;
}
assert.equal(text, expected);
assert.equal(usage.completion_tokens, chat.usage.completion_tokens);
assert.ok(usage.prompt_tokens_details.cached_tokens > 0);

// The library's own collector of streams.
const runner = client.chat.completions.stream({ model, messages, temperature: 0, n: 1 });
const deltas = [];
runner.on('content', (delta) => deltas.push(delta));
const final = await runner.finalChatCompletion();
assert.equal(final.choices[0].message.content, expected);
assert.equal(deltas.join(''), expected);

const logged = await client.chat.completions.create({
  model, messages, temperature: 0, logprobs: true, top_logprobs: 2, max_completion_tokens: 3,
});
assert.equal(logged.choices[0].finish_reason, 'length');
assert.equal(logged.choices[0].logprobs.content.length, 3);
for (const entry of logged.choices[0].logprobs.content) {
  assert.equal(Buffer.from(entry.bytes).toString(), entry.token);
  assert.equal(entry.top_logprobs.length, 2);
  assert.ok(entry.logprob <= 0 && entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob);
}

const completion = await client.completions.create({
  model, prompt: ['Once', 'Twice'], max_tokens: 4, n: 2, seed: 7, temperature: 1, echo: true,
});
assert.equal(completion.choices.length, 4);
assert.ok(completion.choices[0].text.startsWith('Once') && completion.choices[3].text.startsWith('Twice'));

let streamed = '';
for await (const chunk of await client.completions.create({
  model, prompt: 'Once', max_tokens: 8, temperature: 0, stream: true, stop: ['\n\n'],
})) streamed += chunk.choices[0]?.text ?? '';
const whole = await client.completions.create({
  model, prompt: 'Once', max_tokens: 8, temperature: 0, stop: '\n\n',
});
assert.equal(streamed, whole.choices[0].text);

// Errors arrive as the library's own classes.
await assert.rejects(client.chat.completions.create({ model: 'nobody', messages }),
  (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_not_found');
await assert.rejects(client.chat.completions.create({ model, messages, temperature: -1 }),
  (error) => error instanceof OpenAI.BadRequestError && error.param === 'temperature');
await assert.rejects(
  client.chat.completions.create({
    model, messages: [{ role: 'user', content: 'word '.repeat(40_000) }], stream: true,
  }),
  (error) => error.status === 400 && error.code === 'context_length_exceeded');
const stranger = new OpenAI({ baseURL, apiKey: 'wrong', maxRetries: 0 });
await assert.rejects(stranger.models.list(), (error) => error instanceof OpenAI.AuthenticationError);

// Leaving a stream early must not hurt the next request.
const left = await client.completions.create({ model, prompt: 'Once', max_tokens: 2000, stream: true });
for await (const chunk of left) {
  assert.equal(chunk.object, 'text_completion');
  break;
}
assert.equal((await client.chat.completions.create({ model, messages })).choices[0].message.content,
  expected);
