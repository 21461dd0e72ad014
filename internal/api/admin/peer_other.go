//go:build !linux

package admin

import "net/netip"

// isOwnUserOrRoot admits every program of the machine: systems other than Linux have no readable table of sockets.
func isOwnUserOrRoot(netip.AddrPort, netip.AddrPort) bool { return true }
