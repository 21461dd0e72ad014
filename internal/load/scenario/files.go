package scenario

import "github.com/muster-fleet/muster/internal/model"

const (
	otherFiles = 200 // that a loader has open beside its agents' connections
	people     = 50  // connections to a server that are not its agents'
)

// Connections is how many connections of agents a loader can hold that may open so many
// files. One with a server of its own: how many of them that server lets in, too, whose
// process has the same limit.
func Connections(files int, ownServer bool) int {
	n := files - otherFiles
	if ownServer {
		n = min(n, model.MaxConnections(files)-people)
	}
	return max(n, 0)
}

// Files is the least that has to be allowed for so many connections.
func Files(connections int, ownServer bool) int {
	files := connections + otherFiles
	for {
		lacks := connections - Connections(files, ownServer)
		if lacks <= 0 {
			return files
		}
		files += lacks // one more file is at most one more connection
	}
}
