package selfcheck

import (
	"fmt"
	"sync"

	"github.com/muster-fleet/muster/internal/source/core"
)

// olderData counts agents with acknowledgements that this server's data does not hold: the data folder is
// an older copy, or has lost its end.
type olderData struct {
	mu     sync.Mutex
	agents int
	first  string // node
}

// OlderData reports an agent whose server acknowledged more than this one holds. It is
// muster.Config.OnBehind.
func (m *Monitor) OlderData(node core.Node) {
	m.older.mu.Lock()
	first := m.older.agents == 0
	if m.older.agents++; first {
		m.older.first = node.Name
	}
	m.older.mu.Unlock()
	if first {
		m.o.Log.Error("an agent was acknowledged more than this server holds: its data is an older copy, or lost its end",
			"node", node.Name, "type", m.o.RestoredCommand)
	}
}

// text describes the finding; "": there is none.
func (d *olderData) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.agents == 0 {
		return ""
	}
	return fmt.Sprintf("agents (%d, the first was %s) were acknowledged more than this server holds: its data is an older copy, or lost its end", d.agents, d.first)
}
