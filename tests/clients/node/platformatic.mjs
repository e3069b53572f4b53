// @platformatic/kafka: a new client with high floors.
import { Producer } from '@platformatic/kafka'
import { main } from './common.mjs'

main(async (bootstrap, topic, codec) => {
  const producer = new Producer({ clientId: 'judge', bootstrapBrokers: [bootstrap], retries: 3, idempotent: true, acks: -1 })
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
})
