package metric

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// senderClock relates the clock of a values' sender to the server's clock, to find a batch's send time. The sender's
// clock is shard.Arrival.NowMs. A batch that waits in front of the server arrives late, so the least difference of
// both clocks counts: batches that waited keep the intervals between them. A window ends after clockWindow and the
// present one and the one before count, so a step of a clock has its effect for at most 2 × clockWindow.
type senderClock struct {
	stream   wire.StreamKey
	nowMs    uint64 // of the last batch
	began    int64  // receive time of the first batch in the window, Unix ns
	least    int64  // least receive time less sender's clock in the window, ns
	previous int64  // the same in the window before
}

const (
	clockWindow = 5 * time.Minute
	maxWait     = 10 * time.Minute // a batch that seems to have waited longer shows a step of a clock
)

// sendTime estimates, by the server's clock, when a sender sent a batch. It is the receive time without the time that
// the batch waited.
func (c *senderClock) sendTime(received int64, nowMs uint64) int64 {
	now := int64(min(nowMs, math.MaxInt64/uint64(time.Millisecond))) * int64(time.Millisecond)
	difference, age := received-now, received-c.began
	switch {
	case c.began == 0 || nowMs < c.nowMs || age >= 2*int64(clockWindow) || difference-min(c.least, c.previous) > int64(maxWait):
		c.began, c.least, c.previous = received, difference, difference // a new sender, a reboot, a pause or a step
	case age >= int64(clockWindow):
		c.began, c.least, c.previous = received, difference, c.least
	}
	c.nowMs, c.least = nowMs, min(c.least, difference)
	return now + min(c.least, c.previous)
}

// sendTime estimates, by the server's clock, when an agent sent a batch. It is the receive time without the time that
// the batch waited in front of the server. A sender without a clock has the receive time.
func (node *nodeState) sendTime(received int64, from *shard.SignalOrigin) int64 {
	if from.NowMs == 0 {
		return received
	}
	at := slices.IndexFunc(node.clocks, func(c senderClock) bool { return c.stream == from.Stream })
	if at < 0 {
		if len(node.clocks) == shard.MaxStreams {
			node.clocks = slices.Delete(node.clocks, 0, 1)
		}
		at, node.clocks = len(node.clocks), append(node.clocks, senderClock{stream: from.Stream})
	}
	return node.clocks[at].sendTime(received, from.NowMs)
}

// valueTime returns the time stamp for the node's new values, by the server's clock. It is the send time of the
// last live batch plus the listening time since then. It goes on with listening time from the last live batch,
// so that neither a pause of the server nor a step of its clock makes values old, and is at most maxWait before
// the receive time.
func (node *nodeState) valueTime(received, listening int64) int64 {
	if node.timeOffset == 0 {
		return received
	}
	return min(max(listening+node.timeOffset, received-int64(maxWait)), received)
}

// appendClocks appends to a snapshot how the clocks of a node's senders differ from the server's clock.
func appendClocks(b []byte, list []senderClock) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for i := range list {
		c := &list[i]
		b = append(binary.LittleEndian.AppendUint64(b, uint64(c.stream.Stream)), byte(c.stream.Lane))
		b = binary.AppendUvarint(b, c.nowMs)
		for _, v := range [...]int64{c.began, c.least, c.previous} {
			b = binary.AppendVarint(b, v)
		}
	}
	return b
}

// decodeClocks reads from a snapshot how the clocks of a node's senders differ from the server's clock.
func decodeClocks(d *shard.Decoder) (list []senderClock) {
	count := d.Count()
	if count > shard.MaxStreams {
		d.Fail("too many clocks of senders")
		return nil
	}
	for range count {
		stream := wire.StreamKey{Stream: wire.StreamID(d.Fixed64()), Lane: wire.Lane(d.Byte())}
		list = append(list, senderClock{stream: stream, nowMs: d.Uint(), began: d.Int(), least: d.Int(), previous: d.Int()})
	}
	return list
}
