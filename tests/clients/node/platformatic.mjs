// @platformatic/kafka: a new client with high floors.
import { Consumer, Producer } from '@platformatic/kafka'
import { Left, group, main } from './common.mjs'

const open = (Kind, bootstrap, more) => new Kind({ clientId: 'judge', bootstrapBrokers: [bootstrap], retries: 3, ...more })

async function writer(bootstrap, topic, codec) {
  const producer = open(Producer, bootstrap, { idempotent: true, acks: -1 })
  return {
    async send(records) {
      const messages = records.map(({ partition, timestamp, key, value, headers }) => ({
        topic, partition, timestamp: BigInt(timestamp), key, value, headers: new Map(headers.map(([name, content]) => [Buffer.from(name), content]))
      }))
      const { offsets } = await producer.send({ messages, compression: codec })
      return offsets.map(({ partition, offset }) => [partition, offset])
    },
    close: () => producer.close()
  }
}

async function reader(bootstrap, topic) {
  const consumer = open(Consumer, bootstrap, { groupId: group(), maxWaitTime: 100 })
  const edge = async timestamp => (await consumer.listOffsets({ topics: [topic], timestamp })).get(topic)
  const [begins, ends] = [await edge(-2n), await edge(-1n)]
  const left = new Left(new Map(ends.map((end, p) => [p, end]).filter(([p, end]) => end > begins[p])))
  return async take => {
    if (left.ends.size) {
      const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: false })
      stream.on('error', left.reject)
      stream.on('data', message => {
        take({ ...message, headers: [...message.headers].map(([name, content]) => [name.toString(), content]) })
        left.took(message.partition, message.offset)
      })
      await left.done
    }
    await consumer.close(true)
  }
}

main({ writer, reader })
