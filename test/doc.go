// Package test holds the black-box tests: they start the real binary as processes of
// their own, talk to it over real sockets, and give it bad days: killed, stopped, out
// of disk, with damaged files, with hostile frames. What a package can show alone is
// tested in that package.
//
// In: the source tree (the binary is built once for each run of the tests, or taken
// from MUSTER_TEST_BIN). Out: nothing outside the tests' temporary folders. Each test
// owns its processes; harness ends them. Start reading at harness/server.go, then
// server_outage_test.go.
package test
