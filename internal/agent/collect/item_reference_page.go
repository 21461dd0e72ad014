package collect

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reference returns the reference page of all supported item keys, docs/reference/keys.md
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(`# Keys of items

The keys that agents collect, with the names, parameters and values of Zabbix's agents for Linux and Windows. An empty parameter has its first value.
An item whose key or parameter an agent cannot collect is *unsupported*, and ` + "`muster get items`" + ` shows the reason.
This page is generated from the code.

Systems are Linux (L), Windows (W), macOS (M) and FreeBSD (F). The keys of Linux are compared with Zabbix's own agent. Those of Windows are run with Wine, not on a Windows
machine; those with (W) are built and not run: Wine does not have them. Those of macOS and FreeBSD are built and not run. [What differs by system](../metrics.md#keys-by-system).

`)
	fmt.Fprintf(&b, "Keys marked * wait for a disk, a program or the network: each has %.0f seconds. %d of the network's (icmp, net, web) run at once, and as many others.\n", itemTimeout.Seconds(), maxWaiting)
	fmt.Fprintf(&b, "A text has at most %d KiB. Regular expressions are those of Go: linear time, no lookaround and no back references.\n\n| key | parameters | value | systems |\n|---|---|---|---|\n", maxText>>10)
	known := collectorTable()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		c := known[name]
		parameters, mark := strings.ReplaceAll(c.parameters, "|", `\|`), ""
		if parameters != "" {
			parameters = "`" + parameters + "`"
		}
		if c.waits {
			mark = " *"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s |\n", name, mark, parameters, c.summary, c.systems.letters())
	}
	return b.Bytes()
}

// letters returns the letters of the systems for the reference page, as in L W.
func (s systems) letters() string {
	var letters []string
	for _, of := range []struct {
		system systems
		letter string
	}{{onLinux, "L"}, {wine, "W"}, {onMacOS, "M"}, {onFreeBSD, "F"}} {
		switch s & of.system {
		case of.system:
			letters = append(letters, of.letter)
		case onWindows:
			letters = append(letters, "(W)")
		}
	}
	return strings.Join(letters, " ")
}
