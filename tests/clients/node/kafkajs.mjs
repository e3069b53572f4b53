// kafkajs 2.2.4: unmaintained and everywhere.
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import { Left, group, main, print } from './common.mjs'

const { AssignerProtocol, CompressionTypes, CompressionCodecs, Kafka, logLevel } = kafkajs
const { MemberAssignment, MemberMetadata } = AssignerProtocol
CompressionCodecs[CompressionTypes.Snappy] = snappy
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

const open = bootstrap => new Kafka({ brokers: [bootstrap], clientId: 'judge', logLevel: logLevel.NOTHING, retry: { retries: 3 } })

// One name may carry several values.
function headers(pairs) {
  const out = {}
  for (const [name, value] of pairs) out[name] = name in out ? [out[name], value].flat() : value
  return out
}

const pairs = headers => Object.entries(headers).flatMap(([name, value]) => [value].flat().map(one => [name, one]))

async function writer(bootstrap, topic, codec) {
  const producer = open(bootstrap).producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  return {
    async send(records) {
      const messages = records.map(r => ({ ...r, timestamp: String(r.timestamp), headers: headers(r.headers) }))
      const answer = await producer.send({ topic, acks: -1, compression: CODECS[codec], messages })
      for (const { errorCode, partition } of answer) if (errorCode) throw new Error(`partition ${partition}: error ${errorCode}`)
      return answer.map(({ partition, baseOffset }) => [partition, BigInt(baseOffset)])
    },
    close: () => producer.disconnect()
  }
}

async function reader(bootstrap, topic) {
  const kafka = open(bootstrap)
  const admin = kafka.admin()
  await admin.connect()
  const found = await admin.fetchTopicOffsets(topic)
  await admin.disconnect()
  const left = new Left(new Map(found.filter(p => p.high !== p.low).map(p => [p.partition, BigInt(p.high)])))
  const consumer = kafka.consumer({ groupId: group(), maxWaitTimeInMs: 100 })
  return async take => {
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        take({ ...message, partition, headers: pairs(message.headers ?? {}) })
        left.took(partition, message.offset)
      }
    })
    await left.done
    await consumer.disconnect()
  }
}

// The range assignor, which kafkajs does not bring along: each member gets a run of partitions.
const range = ({ cluster }) => ({
  name: 'range',
  version: 0, // the one that knows no owned partitions
  async assign({ members, topics }) {
    const ids = members.map(({ memberId }) => memberId).sort()
    const given = new Map(ids.map(id => [id, {}]))
    for (const topic of topics) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId).sort((a, b) => a - b)
      let from = 0
      ids.forEach((id, i) => {
        const many = Math.floor(partitions.length / ids.length) + (i < partitions.length % ids.length ? 1 : 0)
        given.get(id)[topic] = partitions.slice(from, from += many)
      })
    }
    return ids.map(id => ({ memberId: id, memberAssignment: MemberAssignment.encode({ version: 0, assignment: given.get(id), userData: Buffer.alloc(0) }) }))
  },
  protocol: ({ topics }) => ({ name: 'range', metadata: MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }) })
})

async function member(bootstrap, topic, groupId) {
  const consumer = open(bootstrap).consumer({
    groupId, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 10_000, maxWaitTimeInMs: 200,
    partitionAssigners: [range], retry: { retries: 10 }
  })
  const stopped = new Promise(resolve => process.once('SIGTERM', resolve))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => print({ assigned: payload.memberAssignment[topic] ?? [] }))
  consumer.on(consumer.events.REBALANCING, () => print({ revoked: null }))
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    async eachBatch({ batch, resolveOffset, isRunning, isStale }) {
      if (!isRunning() || isStale() || !batch.messages.length) return
      for (const { offset } of batch.messages) print({ record: [batch.partition, Number(offset)] })
      const next = String(BigInt(batch.lastOffset()) + 1n)
      await consumer.commitOffsets([{ topic, partition: batch.partition, offset: next }])
      resolveOffset(batch.lastOffset())
      print({ committed: { [batch.partition]: Number(next) } })
    }
  })
  await stopped
  await consumer.disconnect()
}

main({ writer, reader, member })
