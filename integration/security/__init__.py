"""What a secured cluster is made of. Rule: nothing of the client under test is used, and no backend is known.

settings        what is demanded of clients (`Security`), as properties of brokers
certificates    a certificate authority of the cluster's own, and certificates of every kind, right and wrong
kerberos        a realm of Kerberos with its KDC
credentials     what passwords and tokens become before they are sent or stored
login           how a client connects and proves who it is, frame by frame: to know what a broker answers
options         the same for clients: the options of pykafka4, Java, librdkafka
"""
