"""The sidecar for applications in any language: a member in this process, one session at a time at a socket."""
