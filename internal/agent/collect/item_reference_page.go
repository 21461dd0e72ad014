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

The keys that agents collect, with the names, parameters and values of Zabbix's agent for Linux. An empty parameter has its first value.
An item whose key or parameter an agent cannot collect is *unsupported*, and ` + "`muster get items`" + ` shows the reason.
This page is generated from the code.

`)
	fmt.Fprintf(&b, "Keys marked * wait for a disk, a program or the network: each has %.0f seconds. %d of the network's (icmp, net, web) run at once, and as many others.\n", itemTimeout.Seconds(), maxWaiting)
	fmt.Fprintf(&b, "A text has at most %d KiB. Regular expressions are those of Go: linear time, no lookaround and no back references.\n\n| key | parameters | value |\n|---|---|---|\n", maxText>>10)
	known := collectors()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		c := known[name]
		parameters, mark := strings.ReplaceAll(c.parameters, "|", `\|`), ""
		if parameters != "" {
			parameters = "`" + parameters + "`"
		}
		if c.waits {
			mark = " *"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", name, mark, parameters, c.summary)
	}
	return b.Bytes()
}
