package collect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// collector measures one item. Kind None without error is no value yet, such as the first of two that are compared.
type collector func(ctx context.Context, m *machine, k *Key) (item.Value, error)

// collectors has the collectors by the name of the key.
func collectors() map[string]collector {
	return map[string]collector{
		"agent.ping":       func(context.Context, *machine, *Key) (item.Value, error) { return item.FromUnsigned(1), nil },
		"agent.hostname":   func(_ context.Context, m *machine, _ *Key) (item.Value, error) { return item.FromText(m.host), nil },
		"system.hostname":  func(_ context.Context, m *machine, _ *Key) (item.Value, error) { return item.FromText(m.host), nil },
		"system.uptime":    uptime,
		"system.cpu.load":  cpuLoad,
		"system.cpu.util":  cpuUtil,
		"system.cpu.num":   cpuNumber,
		"vm.memory.size":   memorySize,
		"system.swap.size": swapSize,
		"vfs.fs.size":      fileSystemSize,
		"vfs.fs.inode":     fileSystemInodes,
		"net.if.in":        networkTraffic(0),
		"net.if.out":       networkTraffic(8),
		"proc.num":         processNumber,
	}
}

// Check returns the reason why a key cannot be collected on any machine; nil: agents of this version know it.
func Check(key string) error {
	k, err := ParseKey(key)
	if err != nil {
		return err
	}
	known := collectors()
	if known[k.Name] != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(known))
	if near := model.Nearest(k.Name, names); near != "" {
		return fmt.Errorf("unknown key %s: did you mean %s?", k.Name, near)
	}
	return fmt.Errorf("unknown key %s; agents know %s", k.Name, strings.Join(names, ", "))
}
