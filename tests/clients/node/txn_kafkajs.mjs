// kafkajs 2.2.4 with transactions, in old versions of their calls. The verbs are told in ../python/txn_common.py.
import kafkajs from 'kafkajs'
import { group, print } from './common.mjs'

const { Kafka, logLevel } = kafkajs
const PARTITIONS = [0, 1, 2]
const PATIENCE = 30_000
const aborts = i => i % 3 === 2
const open = bootstrap => new Kafka({ brokers: [bootstrap], clientId: 'judge', logLevel: logLevel.NOTHING, retry: { retries: 10, initialRetryTime: 50 } })
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

async function producer(bootstrap, transactionalId) {
  const client = open(bootstrap).producer({ transactionalId, transactionTimeout: 10_000, maxInFlightRequests: 1, idempotent: true })
  await client.connect()
  return client
}

async function transact(bootstrap, topic, id, count) {
  const client = await producer(bootstrap, id)
  for (let i = 0; i < Number(count); i++) {
    const transaction = await client.transaction()
    await transaction.send({ topic, acks: -1, messages: PARTITIONS.map(partition => ({ partition, value: `${id}:${i}:${partition}` })) })
    await (aborts(i) ? transaction.abort() : transaction.commit())
    print({ [aborts(i) ? 'aborted' : 'committed']: i })
  }
  await client.disconnect()
}

async function committed(bootstrap, topic, count) {
  const consumer = open(bootstrap).consumer({ groupId: group(), maxWaitTimeInMs: 100, readUncommitted: false })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  let seen = 0
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      print({ record: [partition, Number(message.offset), message.value.toString()] })
      seen++
    }
  })
  for (const until = Date.now() + PATIENCE; seen < Number(count) && Date.now() < until;) await pause(100)
  await pause(1000)
  await consumer.disconnect()
}

async function pipe(bootstrap, source, target, groupId, id) {
  const stopped = new Promise(resolve => process.once('SIGTERM', resolve))
  const client = await producer(bootstrap, id)
  const consumer = open(bootstrap).consumer({
    groupId, sessionTimeout: 3000, heartbeatInterval: 500, rebalanceTimeout: 5000, maxWaitTimeInMs: 100, maxBytes: 4096, readUncommitted: false
  })
  consumer.on(consumer.events.CRASH, () => process.exit(1))
  await consumer.connect()
  await consumer.subscribe({ topics: [source], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    async eachBatch({ batch, resolveOffset, isRunning, isStale }) {
      if (!isRunning() || isStale() || !batch.messages.length) return
      try {
        const transaction = await client.transaction()
        await transaction.send({ topic: target, acks: -1, messages: batch.messages.map(m => ({ partition: batch.partition, value: m.value })) })
        const offset = String(BigInt(batch.lastOffset()) + 1n)
        await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic: source, partitions: [{ partition: batch.partition, offset }] }] })
        await transaction.commit()
      } catch (error) {
        console.error(error)
        process.exit(1) // the next one aborts what is open
      }
      resolveOffset(batch.lastOffset())
      print({ committed: batch.messages.length })
    }
  })
  await stopped
  await consumer.disconnect()
  await client.disconnect()
}

const [verb, ...rest] = process.argv.slice(2)
try {
  await { transact, committed, pipe }[verb](...rest)
  process.exit(0)
} catch (error) {
  console.error(error)
  process.exit(1)
}
