//go:build !linux

package collect

import (
	"context"
	"fmt"

	"github.com/muster-fleet/muster/internal/item"
)

// interfaceTraffic has the counters of a network interface since boot.
type interfaceTraffic struct {
	bytesIn, packetsIn, errorsIn, droppedIn, bytesOut, packetsOut, errorsOut, droppedOut, collisions uint64
}

// interfaceOfKey returns the counters of the network interface that an item key's first parameter names.
func interfaceOfKey(k *Key) (interfaceTraffic, error) {
	name := k.Parameter(0, "")
	if name == "" {
		return interfaceTraffic{}, fmt.Errorf("%s: the name of an interface is missing; net.if.discovery lists the names", k.Name)
	}
	t, ok, err := findInterface(name)
	if err == nil && !ok {
		err = fmt.Errorf("this machine has no network interface %s; net.if.discovery lists the names", name)
	}
	return t, err
}

// networkTraffic returns a function that collects the received or sent traffic of a network interface. The items are
// net.if.in, net.if.out and net.if.total[INTERFACE,bytes|packets|errors|dropped].
func networkTraffic(in, out bool) measureFunc {
	return func(_ context.Context, _ *machine, k *Key) (item.Value, error) {
		t, err := interfaceOfKey(k)
		if err != nil {
			return item.Value{}, err
		}
		received, sent := t.bytesIn, t.bytesOut
		switch k.Parameter(1, "bytes") {
		case "bytes":
		case "packets":
			received, sent = t.packetsIn, t.packetsOut
		case "errors":
			received, sent = t.errorsIn, t.errorsOut
		case "dropped":
			received, sent = t.droppedIn, t.droppedOut
		default:
			return item.Value{}, errUnknownMode(k, 1, "bytes", "packets", "errors", "dropped")
		}
		switch {
		case !out:
			sent = 0
		case !in:
			received = 0
		}
		return item.FromUnsigned(received + sent), nil
	}
}
