//go:build !linux

package admin

import "net/netip"

// ownPeer is not known here: every program of the machine is believed.
func ownPeer(netip.AddrPort, netip.AddrPort) bool { return true }
