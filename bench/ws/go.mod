// A module of its own, so that Muster's does not carry the libraries that lost.
module github.com/muster-fleet/muster/bench/ws

go 1.26.7

require (
	github.com/coder/websocket v1.8.15
	github.com/lxzan/gws v1.8.9
	github.com/muster-fleet/muster v0.0.0
	github.com/prometheus/procfs v0.23.0
)

require (
	github.com/dolthub/maphash v0.1.0 // indirect
	github.com/gobwas/httphead v0.1.0 // indirect
	github.com/gobwas/ws v1.5.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/muster-fleet/muster => ../..
