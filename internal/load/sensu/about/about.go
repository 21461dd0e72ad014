// Package about says what has to be known of Sensu as a target before anything is played: what
// a scenario calls it, and what of scenarios waits for something else than with Muster. It imports
// nothing, because scenarios are checked by it; what plays is the folder above.
//
// Goroutines, locks: none. Start reading at Lacks.
package about

// Name is what a scenario's target calls it.
const Name = "sensu"

// Lacks returns the capabilities of scenarios that simulated agents of Sensu do not have.
func Lacks() []string {
	return []string{"proxy-checks", "round-robin", "stream-handler", "values", "policies", "inventories"}
}
