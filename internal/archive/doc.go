// Package archive keeps the archives of Assets that agents and the server's own commands use: it fetches
// those with an address, takes uploads, removes those without an Asset, and finds damaged ones for
// muster doctor. The bytes lie in package store/asset.
//
// Run is one goroutine, with one more for each fetch. The lock Archive.mu guards the lists; nothing is read or
// sent under it. Start at archive.go.
package archive
