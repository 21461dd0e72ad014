package collect

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/version"
)

// agentPing collects the item agent.ping, whose value is always 1.
func agentPing(context.Context, *machine, *Key) (item.Value, error) { return item.FromUnsigned(1), nil }

// agentVersion collects the item agent.version, the version of the agent.
func agentVersion(context.Context, *machine, *Key) (item.Value, error) {
	return item.FromText(version.Get().Version), nil
}

// hostname collects the machine's host name, the items agent.hostname and system.hostname[host|shorthost,none|lower].
func hostname(_ context.Context, m *machine, k *Key) (item.Value, error) {
	name := m.host
	switch k.Parameter(0, "host") {
	case "host":
	case "shorthost":
		name, _, _ = strings.Cut(name, ".")
	default:
		return item.Value{}, errUnknownMode(k, 0, "host", "shorthost")
	}
	switch k.Parameter(1, "none") {
	case "none":
	case "lower":
		name = strings.ToLower(name)
	default:
		return item.Value{}, errUnknownMode(k, 1, "none", "lower")
	}
	return item.FromText(name), nil
}

// localTime collects the item system.localtime[utc|local], the present time of the machine.
func localTime(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	now := time.Now()
	switch k.Parameter(0, "utc") {
	case "utc":
		return item.FromUnsigned(uint64(now.Unix())), nil
	case "local":
		return item.FromText(now.Format("2006-01-02,15:04:05.000,-07:00")), nil
	}
	return item.Value{}, errUnknownMode(k, 0, "utc", "local")
}

// architecture collects the item system.sw.arch, the architecture of the machine.
func architecture(context.Context, *machine, *Key) (item.Value, error) {
	arch, err := machineArchitecture()
	return item.FromText(arch), err
}

// textUntilZero returns the bytes before the first zero byte as text.
func textUntilZero(data []byte) string {
	text, _, _ := bytes.Cut(data, []byte{0})
	return string(text)
}
