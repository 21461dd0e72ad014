package subject

import (
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/muster-fleet/muster/internal/model"
)

// The kernel takes ports for outgoing connections from 32768 on: below, nobody takes a
// server's while it is down, and neither do the agents of the run. Tests reserve ports below 20,000 for their servers.
const firstPort, lastPort = 20_000, 30_000

// ports finds free loopback addresses, all different.
func ports(n int) ([]string, error) {
	var found []string
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.N(lastPort-firstPort))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close() // only now: the next must be another
		if found = append(found, address); len(found) == n {
			return found, nil
		}
	}
	return nil, model.Errorf(model.Limited, "no free port between %d and %d on 127.0.0.1", firstPort, lastPort)
}
