// Package proof has the heavy tests of relock. Processes are stopped and
// killed, servers crash, clocks jump, and state machines make random calls. It
// is a separate module, so that users of relock do not download its
// dependencies.
package proof
