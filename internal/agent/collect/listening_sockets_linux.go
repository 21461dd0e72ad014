package collect

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// socketListens returns a function that collects net.tcp.listen or net.udp.listen[PORT]. The value is 1 if a program
// listens on the port, else 0. state is the socket's state in /proc/net.
func socketListens(protocol, state string) measureFunc {
	return func(_ context.Context, m *machine, k *Key) (item.Value, error) {
		port, err := portParameter(k, 0, "")
		if err != nil {
			return item.Value{}, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return item.Value{}, err
		}
		suffix := fmt.Sprintf(":%04X", n)
		for _, family := range []string{"", "6"} {
			text, err := m.read("/proc/net/" + protocol + family)
			if err != nil && family == "" {
				return item.Value{}, err
			}
			for line := range strings.Lines(text) {
				fields := strings.Fields(line)
				if len(fields) > 3 && fields[3] == state && strings.HasSuffix(fields[1], suffix) && strings.HasSuffix(fields[2], ":0000") {
					return boolNumber(true), nil
				}
			}
		}
		return boolNumber(false), nil
	}
}
