"""Provides the parts of a secured cluster. Invariant: no module here uses the client under test, or knows a backend.

settings        the brokers' demands on clients (`Security`), as properties of brokers
certificates    a certificate authority of the cluster's own, and certificates of every kind, valid and faulty
kerberos        a realm of Kerberos with its KDC
credentials     the forms in which passwords and tokens are sent or stored
login           a login, frame by frame, to learn a broker's answers
options         the matching options of clients: of pykafka4, Java, librdkafka
"""
