package metric

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// maxLogs limits the positions in logs of one node. A further one replaces that of the oldest use.
const maxLogs = 1000

// setLogPosition stores the position in a log of a Zabbix agent's block of values. It takes effect at once, also if the values
// wait for slow scripts: the server has them.
func (node *nodeState) setLogPosition(p wire.LogPosition) {
	if p.Item == 0 {
		return
	}
	at := slices.IndexFunc(node.logs, func(one wire.LogPosition) bool { return one.Item == p.Item })
	if at < 0 && len(node.logs) == maxLogs {
		at = 0
	}
	if at >= 0 {
		node.logs = slices.Delete(node.logs, at, at+1)
	}
	node.logs = append(node.logs, p)
}

// LogPositions returns up to which position the server has each log of a node. The key is the number of the item's key. It first
// waits until a commit is applied.
func (v *View) LogPositions(ctx context.Context, node model.NodeID, after journal.Position) (map[uint64]wire.LogPosition, error) {
	if err := v.shard.WaitApplied(ctx, after); err != nil {
		return nil, err
	}
	of := v.shard.PartitionOf(node)
	if of == nil {
		return nil, nil
	}
	p := &v.partitions[of.ID]
	p.Lock()
	defer p.Unlock()
	positions := map[uint64]wire.LogPosition{}
	if n, ok := p.Find(node); ok {
		for _, one := range p.nodes[n].logs {
			positions[one.Item] = one
		}
	}
	return positions, nil
}

// appendLogPositions appends a node's positions in logs to a snapshot.
func appendLogPositions(b []byte, list []wire.LogPosition) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, one := range list {
		b = binary.LittleEndian.AppendUint64(b, one.Item)
		b = binary.AppendUvarint(binary.AppendUvarint(b, one.Size), one.MTime)
	}
	return b
}

// decodeLogPositions reads a node's positions in logs from a snapshot.
func decodeLogPositions(d *shard.Decoder) (list []wire.LogPosition) {
	n := d.Count()
	if n > maxLogs {
		d.Fail("too many positions in logs")
		return nil
	}
	for range n {
		list = append(list, wire.LogPosition{Item: d.Fixed64(), Size: d.Uint(), MTime: d.Uint()})
	}
	return list
}
