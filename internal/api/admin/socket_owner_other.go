//go:build !linux

package admin

import (
	"net/netip"

	"github.com/muster-fleet/muster/internal/model"
)

// checkClientUser accepts every client: the variant for systems other than Linux, because only Linux names the user of
// a TCP socket.
func checkClientUser(netip.AddrPort, netip.AddrPort) *model.Error { return nil }
