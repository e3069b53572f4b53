// kafkajs 2.2.4: unmaintained and everywhere.
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import { main } from './common.mjs'

const { CompressionTypes, CompressionCodecs, Kafka, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = snappy
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

// One name may carry several values.
function headers(pairs) {
  const out = {}
  for (const [name, value] of pairs) out[name] = name in out ? [out[name], value].flat() : value
  return out
}

main(async (bootstrap, topic, codec) => {
  const kafka = new Kafka({ brokers: [bootstrap], clientId: 'judge', logLevel: logLevel.ERROR, retry: { retries: 3 } })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
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
})
