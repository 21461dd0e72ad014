// Package about says what has to be known of Sensu as a target before anything is played: what
// a scenario calls it, and what of scenarios waits for something else than with Muster. It imports
// nothing, because scenarios are checked by it; what plays is the folder above.
//
// Goroutines, locks: none. Start reading at Differs.
package about

// Name is what a scenario's target calls it.
const Name = "sensu"

// Differs reports whether Sensu has a capability, and what it waits for if not; ok is false if it is as in Muster.
func Differs(capability string) (exists bool, waits string, ok bool) {
	switch capability {
	case "proxy-checks", "round-robin":
		return false, "a ledger of proxy entities for simulated agents of Sensu", true
	case "stream-handler":
		return false, "a reader of what Sensu's handlers write", true
	case "fleet-of-servers": // --server names several backends
		return true, "", true
	case "values", "policies", "inventories":
		return false, "simulated agents of Sensu that send them", true
	}
	return false, "", false
}
