package admin

import (
	"net/netip"
	"os"

	"github.com/prometheus/procfs"
)

// isOwnUserOrRoot reports whether the local client of a connection runs as the server's user or root.
// The kernel's table of sockets tells the user of each socket.
func isOwnUserOrRoot(peer, us netip.AddrPort) bool {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return false
	}
	//lint:ignore SA1019 netlink needs a library and gives no more
	sockets, err := fs.NetTCP()
	//lint:ignore SA1019 as above
	if six, err6 := fs.NetTCP6(); err6 == nil { // missing where IPv6 is off
		sockets = append(sockets, six...)
	}
	if err != nil {
		return false
	}
	for _, s := range sockets {
		from, _ := netip.AddrFromSlice(s.LocalAddr)
		to, _ := netip.AddrFromSlice(s.RemAddr)
		if from.Unmap() == peer.Addr() && s.LocalPort == uint64(peer.Port()) && to.Unmap() == us.Addr() && s.RemPort == uint64(us.Port()) {
			return s.UID == 0 || s.UID == uint64(os.Geteuid())
		}
	}
	return false
}
