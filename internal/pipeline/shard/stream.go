package shard

import "github.com/muster-fleet/muster/internal/wire"

// streamLast is the last number applied of one stream and lane.
type streamLast struct {
	key  wire.StreamKey
	last uint64
}

// MaxStreams bounds the streams remembered per node: one stream has two lanes,
// and a node gets a new stream only when its spool was lost or rolled back.
const MaxStreams = 16

// stream returns the entry of a stream, and moves it to the end as the newest used.
func (n *Node) stream(key wire.StreamKey) (s *streamLast, known bool) {
	last := len(n.streams) - 1
	for i := last; i >= 0; i-- {
		if n.streams[i].key == key {
			// The two lanes of a stream take turns; only older ones move.
			if i < last-1 {
				moved := n.streams[i]
				copy(n.streams[i:], n.streams[i+1:])
				n.streams[last] = moved
				i = last
			}
			return &n.streams[i], true
		}
	}
	if len(n.streams) == MaxStreams {
		copy(n.streams, n.streams[1:])
		n.streams = n.streams[:last]
	}
	n.streams = append(n.streams, streamLast{key: key})
	return &n.streams[len(n.streams)-1], false
}

// moveStream moves the batch's stream on to the end of the batch, and returns the first
// number that is new; those below it are duplicates.
func (w *Worker) moveStream(p *Partition, n uint32) (first uint64) {
	b, node := &w.reader, &p.nodes[n]
	if len(node.streams) == MaxStreams {
		w.shard.metrics.evictions.Inc() // an upper bound: the stream may be a known one
	}
	s, known := node.stream(b.StreamKey)
	first = s.last + 1
	if known && b.First > first {
		// The source lets no hole pass, so commits are lost (muster doctor repair). The
		// missing signals are lost too; those in the batch count.
		w.shard.metrics.holes.Inc()
		w.shard.opts.Logger.Warn("numbers are missing in a stream: commits of the journal are lost",
			"node", node.ID, "stream", uint64(b.Stream), "lane", b.Lane, "last", s.last, "first", b.First)
	}
	s.last = max(s.last, b.Last())
	if b.Lane == wire.Backlog {
		w.countBacklog(p, n, b.Last()-b.First+1)
	}
	return first
}
