package collect

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/muster-fleet/muster/internal/item"
)

// interfaceRows returns the network interfaces with their counters.
func interfaceRows() (rows []windows.MibIfRow2, err error) {
	var size uint32
	err = windows.GetAdaptersAddresses(windows.AF_UNSPEC, 0, 0, nil, &size)
	for err == windows.ERROR_BUFFER_OVERFLOW {
		buffer := make([]byte, size)
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buffer[0]))
		if err = windows.GetAdaptersAddresses(windows.AF_UNSPEC, 0, 0, first, &size); err != nil {
			continue
		}
		for one := first; one != nil; one = one.Next {
			row := windows.MibIfRow2{InterfaceLuid: one.Luid}
			if windows.GetIfEntry2Ex(windows.MibIfTableNormal, &row) == nil {
				rows = append(rows, row)
			}
		}
	}
	if err == windows.ERROR_NO_DATA { // no interface
		err = nil
	}
	return rows, err
}

// hasAddress reports whether the interface with an index has an IP address.
func hasAddress(index uint32, address string) bool {
	one, err := net.InterfaceByIndex(int(index))
	if err != nil {
		return false
	}
	list, _ := one.Addrs()
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.String() == address {
			return true
		}
	}
	return false
}

// findInterface returns the counters of a network interface by its description, GUID or IP address. found is false if
// this machine has no such interface.
func findInterface(name string) (t interfaceTraffic, found bool, err error) {
	rows, err := interfaceRows()
	for i := range rows {
		r := &rows[i]
		if name == windows.UTF16ToString(r.Description[:]) || strings.EqualFold(name, r.InterfaceGuid.String()) || net.ParseIP(name) != nil && hasAddress(r.InterfaceIndex, name) {
			return interfaceTraffic{
				r.InOctets, r.InUcastPkts + r.InNUcastPkts, r.InErrors, r.InDiscards + r.InUnknownProtos,
				r.OutOctets, r.OutUcastPkts + r.OutNUcastPkts, r.OutErrors, r.OutDiscards, 0,
			}, true, nil
		}
	}
	return t, false, err
}

// discoverInterfaces collects the item net.if.discovery, the network interfaces for Zabbix's low-level discovery.
func discoverInterfaces(context.Context, *machine, *Key) (item.Value, error) {
	list, err := interfaceRows()
	if err != nil {
		return item.Value{}, err
	}
	rows := []map[string]string{}
	for i := range list {
		r := &list[i]
		rows = append(rows, map[string]string{
			"{#IFNAME}": windows.UTF16ToString(r.Description[:]), "{#IFALIAS}": windows.UTF16ToString(r.Alias[:]), "{#IFGUID}": r.InterfaceGuid.String(),
		})
	}
	return jsonValue(rows)
}

// interfaceTypes are Zabbix's names for types of network interfaces.
var interfaceTypes = map[uint32]string{
	1: "Other", 6: "Ethernet", 9: "Token Ring", 23: "PPP", 24: "Software Loopback", 37: "ATM", 71: "IEEE 802.11 Wireless",
	131: "Tunnel type encapsulation", 144: "IEEE 1394 Firewire",
}

// listInterfaces collects the item net.if.list, a line for each network interface with its type, state, address and
// description.
func listInterfaces(context.Context, *machine, *Key) (item.Value, error) {
	list, err := interfaceRows()
	if err != nil {
		return item.Value{}, err
	}
	var b strings.Builder
	for i := range list {
		r := &list[i]
		kind, state, address := interfaceTypes[r.Type], "disabled", "-"
		if kind == "" {
			kind = "unknown"
		}
		if r.AdminStatus == 1 {
			state = "enabled"
		}
		if one, err := net.InterfaceByIndex(int(r.InterfaceIndex)); err == nil {
			addresses, _ := one.Addrs()
			for _, a := range addresses {
				if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
					address = fmt.Sprintf("%-15s", n.IP)
					break
				}
			}
		}
		fmt.Fprintf(&b, "%-25s %-8s %s %s\n", kind, state, address, windows.UTF16ToString(r.Description[:]))
	}
	return item.FromText(b.String()), nil
}

// socketTable describes a list of sockets that Windows returns, with and without IPv6.
type socketTable struct {
	list  *windows.LazyProc
	class uintptr
	rows  [2]socketRow // of IPv4 and IPv6
}

// socketRow has the size of a row and the offset of its local port.
type socketRow struct {
	family     uintptr
	size, port int
}

// Lists of the sockets that wait for connections or datagrams, with the id of their process.
var (
	tcpSockets = socketTable{getExtendedTCPTable, 3, [2]socketRow{{windows.AF_INET, 24, 8}, {windows.AF_INET6, 56, 20}}}
	udpSockets = socketTable{getExtendedUDPTable, 1, [2]socketRow{{windows.AF_INET, 12, 4}, {windows.AF_INET6, 28, 20}}}
)

// socketListens returns a function that collects net.tcp.listen or net.udp.listen[PORT]. The value is 1 if a program
// listens on the port, else 0.
func socketListens(table socketTable) measureFunc {
	return func(_ context.Context, _ *machine, k *Key) (item.Value, error) {
		text, err := portParameter(k, 0, "")
		if err != nil {
			return item.Value{}, err
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return item.Value{}, err
		}
		for _, row := range table.rows {
			data, err := table.read(row.family)
			if err != nil {
				return item.Value{}, err
			}
			for n := binary.NativeEndian.Uint32(data); n > 0; n-- {
				at := 4 + int(n-1)*row.size + row.port
				if at+2 <= len(data) && uint64(binary.BigEndian.Uint16(data[at:])) == port {
					return boolNumber(true), nil
				}
			}
		}
		return boolNumber(false), nil
	}
}

// read returns the number of sockets of an address family, and a row for each.
func (t *socketTable) read(family uintptr) ([]byte, error) {
	size := uint32(16 << 10)
	for {
		data := make([]byte, size)
		status, _, _ := t.list.Call(uintptr(unsafe.Pointer(&data[0])), uintptr(unsafe.Pointer(&size)), 0, family, t.class, 0)
		switch err := windows.Errno(status); err {
		case windows.ERROR_SUCCESS:
			return data, nil
		case windows.ERROR_INSUFFICIENT_BUFFER:
		default:
			return nil, err
		}
	}
}
