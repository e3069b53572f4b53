// What the Node client programs share. The verbs and files are told in
// ../python/common.py; these clients know no assignment, so they consume by a
// group of their own and do not commit.
import { createHash } from 'node:crypto'
import { createReadStream, readFileSync, writeSync } from 'node:fs'

export const PARTITIONS = 16
const SEND_BYTES = 400_000

const bytes = text => (text === null ? null : Buffer.from(text, 'hex'))

// The records of a JSON lines file.
export function records(path) {
  return readFileSync(path, 'utf8').split('\n').filter(Boolean).map(line => {
    const row = JSON.parse(line)
    return { partition: row.p, timestamp: row.ts, key: bytes(row.k), value: bytes(row.v), headers: row.h.map(([name, value]) => [name, bytes(value)]) }
  })
}

// Lines as Buffers, without the newline.
async function * lines(path) {
  let rest = Buffer.alloc(0)
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) {
    rest = rest.length ? Buffer.concat([rest, chunk]) : chunk
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      yield rest.subarray(0, end)
      rest = rest.subarray(end + 1)
    }
  }
  if (rest.length) yield rest
}

class Digest {
  count = 0
  bytes = 0
  sum = 0n
  ordered = new Map()

  add(partition, value) {
    const sum = createHash('md5').update(value).digest()
    this.count++
    this.bytes += value.length
    this.sum = BigInt.asUintN(128, this.sum + BigInt('0x' + sum.toString('hex')))
    const entry = this.ordered.get(partition) ?? { count: 0, hash: createHash('md5') }
    this.ordered.set(partition, entry)
    entry.count++
    entry.hash.update(sum)
  }

  show() {
    const partitions = Object.fromEntries([...this.ordered].map(([p, e]) => [p, [e.count, e.hash.digest('hex')]]))
    const { count, bytes } = this
    console.log(JSON.stringify({ count, bytes, sum: this.sum.toString(16).padStart(32, '0'), partitions }))
  }
}

// Gathers records and gives them to `send(records)`, which returns base offsets by partition.
async function inBatches(source, send, done) {
  let waiting = []
  let size = 0
  const flush = async () => {
    if (waiting.length) done(waiting, await send(waiting))
    waiting = []
    size = 0
  }
  for await (const record of source) {
    const more = (record.value?.length ?? 0) + (record.key?.length ?? 0) + 100
    if (size + more > SEND_BYTES) await flush()
    waiting.push(record)
    size += more
  }
  await flush()
}

async function produce(send, path) {
  await inBatches(records(path), send, (sent, bases) => {
    const next = new Map(bases)
    for (const { partition } of sent) {
      const offset = next.get(partition)
      next.set(partition, offset + 1n)
      console.log(JSON.stringify({ p: partition, o: Number(offset) }))
    }
  })
}

async function load(send, path) {
  const digest = new Digest()
  async function * rows() {
    let i = 0
    for await (const value of lines(path)) {
      const partition = i++ % PARTITIONS
      digest.add(partition, value)
      yield { partition, timestamp: Date.now(), key: null, value, headers: [] }
    }
  }
  await inBatches(rows(), send, () => {})
  digest.show()
}

const hex = raw => (raw === null || raw === undefined ? null : raw.toString('hex'))

// One line per record. `headers` is a list of [name, Buffer or null].
async function consume(read) {
  await read(({ partition, offset, timestamp, key, value, headers }) => {
    print({ p: partition, o: Number(offset), ts: Number(timestamp), k: hex(key), v: hex(value), h: headers.map(([name, content]) => [name, hex(content)]) })
  })
}

async function drain(read) {
  const digest = new Digest()
  await read(({ partition, value }) => digest.add(partition, value))
  digest.show()
}

// A line that is out before anything else happens.
export const print = row => writeSync(1, JSON.stringify(row) + '\n')

// Counts down what is still to be read: {partition: end}.
export class Left {
  constructor(ends) {
    this.ends = ends
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    this.patience = setInterval(() => this.idle++ && this.reject(new Error(`nothing came for 20 s, still waiting for ${[...this.ends.keys()]}`)), 20_000)
    this.idle = 0
    this.look()
  }

  took(partition, offset) {
    this.idle = 0
    if (BigInt(offset) + 1n >= (this.ends.get(partition) ?? 1n << 62n)) this.ends.delete(partition)
    this.look()
  }

  look() {
    if (this.ends.size) return
    clearInterval(this.patience)
    this.resolve()
  }
}

export const group = () => `judge-${process.pid}-${Date.now()}`

// `writer(bootstrap, topic, codec)` gives {send, close}; `reader(bootstrap, topic)` a function that
// gives every record to its argument; `member(bootstrap, topic, group, instance)` runs until SIGTERM.
export async function main({ writer, reader, member }) {
  const [verb, bootstrap, topic, ...rest] = process.argv.slice(2)
  try {
    if (verb === 'group') await member(bootstrap, topic, ...rest)
    else if (verb === 'consume' || verb === 'drain') await { consume, drain }[verb](await reader(bootstrap, topic))
    else {
      const client = await writer(bootstrap, topic, rest[0])
      await { produce, load }[verb](client.send, rest[1])
      await client.close()
    }
    process.exit(0)
  } catch (error) {
    console.error(error)
    process.exit(1)
  }
}
